"""The rooms of Horae as its users see them: public values, and operations that run near and far alike."""
