"""What a person starts to look, mend and change the model."""
