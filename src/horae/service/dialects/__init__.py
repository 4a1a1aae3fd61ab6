"""Doors that keep the words of the documents, over the same rooms."""
