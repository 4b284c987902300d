"""`tokenload serve`: a stepping engine on a thread of its own, behind the OpenAI API."""
