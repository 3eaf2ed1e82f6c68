"""Personal data that is told by its country or by a model: telephone numbers, national ids, names of people."""
