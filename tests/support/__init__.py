"""What tests share: wikis, generations, homes, servers and stand-ins. Tests import from here, never from each other."""
