"""Several databases as one: the map's rows, the fence and the numbers of one shard, and the way to the right one."""
