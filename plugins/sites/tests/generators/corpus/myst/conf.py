project = "Corpus"
extensions = ["myst_parser", "sphinx.ext.autosectionlabel"]
autosectionlabel_prefix_document = True
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "substitution", "tasklist"]
myst_substitutions = {"product": "Corpus"}
html_theme = "basic"
suppress_warnings = ["autosectionlabel.*", "myst.*", "misc.*", "toc.*", "image.*", "docutils"]
