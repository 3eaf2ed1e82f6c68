"""Personal data recognized by country or by a model: telephone numbers, national ids, names of people."""
