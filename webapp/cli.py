"""The command line. A command is never a worker: it adopts, beats and reaps nothing, unless its purpose says so."""


def register(app):
    pass
