"""The words of errors: for each room a table of sentences, by the reason that an error is raised with."""
