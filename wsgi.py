"""What gunicorn and the flask command import: gevent first, then the app. It starts nothing."""
from gevent import monkey

monkey.patch_all()

from webapp import create_app  # noqa: E402

app = create_app()
