"""What is done for the file in the background."""
