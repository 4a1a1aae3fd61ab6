"""The web console: pages over the rooms, for people. It opens no transaction and reads no table."""
