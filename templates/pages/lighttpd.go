package pages

import "fmt"

func lighttpdError(status int) Page {
	if status < 400 {
		return Page{} // its redirects are empty
	}
	heading := fmt.Sprintf("%d %s", status, Reason("lighttpd", status))
	return Page{
		ContentType: "text/html",
		Body: []byte(`<?xml version="1.0" encoding="iso-8859-1"?>` + "\n" +
			`<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"` + "\n" +
			`         "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">` + "\n" +
			`<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">` + "\n" +
			" <head>\n  <title>" + heading + "</title>\n </head>\n <body>\n  <h1>" + heading + "</h1>\n </body>\n</html>\n"),
	}
}
