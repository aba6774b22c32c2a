"""The embedded analysers: what a comment feels like, without a network, a model server or numpy.

``scoring.score(text)`` is the way in. English is read by VADER and by small n-gram weights, Japanese
by a lexicon, emoji by one table for both; what is in neither language is said to be so and is not
scored. Importing anything here opens no file: weights are read at the first use.
"""
