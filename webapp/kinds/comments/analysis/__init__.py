"""The embedded analysers: what a comment feels like, without a network, a model server or numpy.

``scoring.score(text)`` is the way in. English is read by a regression over its n-grams and VADER's
reading, and by a table of idioms; Japanese by a lexicon, emoji by one table for both; what is in
neither language is said to be so and is not scored. Importing anything here opens no file: weights are read at the first use.
"""
