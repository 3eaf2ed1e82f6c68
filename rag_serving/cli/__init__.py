"""The subcommands of `citelock`: arguments and printing."""
