"""What every room uses: errors, results, times, and the plain values that go in and out.

May import: mnelo_locale.
"""
