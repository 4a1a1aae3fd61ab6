"""Ports: the interfaces that Horae needs, such as a clock, dice, a store and wake-ups, room by room.

Stores and actions do not know each other; they meet here. ``World`` bundles the ports for the verbs. A room is a
module of its own, so that a process that never enters it does not make its values.
"""
