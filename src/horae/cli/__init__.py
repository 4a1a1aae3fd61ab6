"""The command line: parse, call one verb, print. Heavy imports wait inside the commands, so that help is instant."""
