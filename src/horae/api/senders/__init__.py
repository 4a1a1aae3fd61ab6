"""Who runs the operations of a room in this process: waiting, or in threads beside an event loop."""
