"""Pure decisions: values in, values out. No clock, no dice, no I/O, no await."""
