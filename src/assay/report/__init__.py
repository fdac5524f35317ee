"""Pictures of results and the HTML report of a study; the only package that imports matplotlib."""
