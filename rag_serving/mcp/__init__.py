"""The Model Context Protocol for agents and chat clients: tools, resources, prompts."""
