"""A home that machines share by an object store: its folders as immutable trees, one head each that moves."""
