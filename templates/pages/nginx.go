package pages

import "fmt"

// nginxReasons are where nginx's status lines differ from the usual words
// (ngx_http_header_filter_module.c).
var nginxReasons = map[int]string{
	302: "Moved Temporarily",
	405: "Not Allowed",
	408: "Request Time-out",
	413: "Request Entity Too Large",
	414: "Request-URI Too Large",
	416: "Requested Range Not Satisfiable",
	503: "Service Temporarily Unavailable",
	504: "Gateway Time-out",
}

// nginxTitles are where its pages differ from its status lines
// (ngx_http_special_response.c).
var nginxTitles = map[int]string{
	302: "Found",
	401: "Authorization Required",
}

// nginxError is nginx's page, which carries the Server header's text at its
// foot. Servers nobody knows get it too.
func nginxError(serverHeader string, status int) Page {
	title, ok := nginxTitles[status]
	if !ok {
		title = Reason("nginx", status)
	}
	heading := escape(fmt.Sprintf("%d %s", status, title))
	return Page{
		ContentType: "text/html",
		Body: []byte("<html>\r\n<head><title>" + heading + "</title></head>\r\n<body>\r\n" +
			"<center><h1>" + heading + "</h1></center>\r\n" +
			"<hr><center>" + escape(serverHeader) + "</center>\r\n</body>\r\n</html>\r\n"),
	}
}
