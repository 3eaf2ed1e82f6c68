project = "Corpus"
extensions = []
html_theme = "basic"
