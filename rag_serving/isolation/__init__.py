"""Processes of their own for what may break or take too much, with limits that the operating system keeps."""
