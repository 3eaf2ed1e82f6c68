"""What agents and chat clients ask over the Model Context Protocol: tools, resources, prompts."""
