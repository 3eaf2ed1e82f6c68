"""Documents that people upload: what is accepted, who may read it, and how far it is."""
