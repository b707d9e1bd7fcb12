//! Live fill: objects that are not here are fetched from listed origins, stored, and only then served.
