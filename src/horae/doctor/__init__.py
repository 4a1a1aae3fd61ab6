"""Checks of an installation: each reports one sentence, and the command that repairs what is wrong."""
