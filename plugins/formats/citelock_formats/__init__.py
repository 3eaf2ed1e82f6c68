"""Readers of mail, Outlook messages, EPUB, OpenDocument, RTF and scanned pages: a plug-in of Citelock."""
