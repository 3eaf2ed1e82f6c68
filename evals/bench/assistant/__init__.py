"""What an assistant does with a question: answers it, asks back, says that the pages do not tell it, refuses it."""
