"""What every room uses: types, results, errors, times."""
