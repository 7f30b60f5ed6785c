"""MQTT: a talk's events to a broker, a broker's orders to a talk."""
