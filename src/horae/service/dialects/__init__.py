"""Doors that keep the words of documents for those who wrote against them; ours are in ``service/routes``."""
