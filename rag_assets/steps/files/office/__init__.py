"""Files of office programs, read: documents, slides and sheets in Office Open XML, OpenDocument and RTF."""
