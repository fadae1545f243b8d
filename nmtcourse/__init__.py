"""What only the course needs: teaching, homework, explorer, the toy grammar, and recipes."""
