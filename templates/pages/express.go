package pages

import "net/http"

// expressError is what Express's final handler (finalhandler) writes outside
// development: the failed route for 404, the status text for the rest.
func expressError(status int, f Facts) Page {
	text := escape(Reason("Express", status))
	if status == http.StatusNotFound && f.Path != "" {
		text = escape("Cannot " + f.Method + " " + f.Path)
	}
	return Page{
		ContentType: "text/html; charset=utf-8",
		Body: []byte("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Error</title>\n</head>\n<body>\n" +
			"<pre>" + text + "</pre>\n</body>\n</html>\n"),
		Fields: [][2]string{{"Content-Security-Policy", "default-src 'none'"}, {"X-Content-Type-Options", "nosniff"}},
	}
}
