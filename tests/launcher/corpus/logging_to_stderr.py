import logging

logging.warning("root %s", "warned")
logging.basicConfig(level=logging.INFO)
logging.getLogger("mine").info("configured")
logging.getLogger(__name__).error("as %s", __name__)
