"""What tenants use of models and of the installation, and where that ends."""
