"""Pages of PDF files as pictures, with the words on them."""
