"""Different values for the same thing in several passages, and the more current one."""
