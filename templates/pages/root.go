package pages

// Root is what a persona without anything else to show has on "/": the plain
// page of a host that works and tells no more.
func Root(host string) Page {
	name := escape(host)
	return Page{
		ContentType: "text/html",
		Body: []byte("<!DOCTYPE html>\n<html>\n<head>\n<title>" + name + "</title>\n</head>\n<body>\n" +
			"<h1>" + name + "</h1>\n<p>It works.</p>\n</body>\n</html>\n"),
	}
}
