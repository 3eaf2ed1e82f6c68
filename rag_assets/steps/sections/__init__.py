"""From blocks to sections with headings, anchors and included text."""
