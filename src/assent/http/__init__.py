"""What the API and the web pages share: who is asking, waiting, and how errors look."""
