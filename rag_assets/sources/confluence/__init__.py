"""A live Confluence space over REST."""
