package pages

import (
	"fmt"
	"strconv"
	"strings"
)

// apacheReasons are Apache's older words (modules/http/http_protocol.c).
var apacheReasons = map[int]string{
	413: "Request Entity Too Large",
	414: "Request-URI Too Long",
	416: "Requested Range Not Satisfiable",
}

// apacheTexts are the paragraphs of its pages, from the same file. METHOD and
// LOCATION stand for what the request said.
var apacheTexts = map[int]string{
	301: `The document has moved <a href="LOCATION">here</a>.`,
	302: `The document has moved <a href="LOCATION">here</a>.`,
	307: `The document has moved <a href="LOCATION">here</a>.`,
	308: `The document has moved <a href="LOCATION">here</a>.`,
	303: "The answer to your request is located <a href=\"LOCATION\">here</a>.",
	400: "Your browser sent a request that this server could not understand.<br />\n",
	401: "This server could not verify that you\nare authorized to access the document\nrequested.  Either you supplied the wrong\ncredentials (e.g., bad password), or your\nbrowser doesn't understand how to supply\nthe credentials required.",
	403: "You don't have permission to access this resource.",
	404: "The requested URL was not found on this server.",
	405: "The requested method METHOD is not allowed for this URL.",
	408: "Server timeout waiting for the HTTP request from the client.",
	411: "A request of the requested method METHOD requires a valid Content-length.<br />\n",
	412: "The precondition on the request\nfor the URL evaluated to false.",
	413: "The requested resource does not allow request data with METHOD requests, or the amount of data provided in\nthe request exceeds the capacity limit.",
	414: "The requested URL's length exceeds the capacity\nlimit for this server.<br />\n",
	415: "The supplied request data is not in a format\nacceptable for processing by this resource.",
	416: "None of the range-specifier values in the Range\nrequest-header field overlap the current extent\nof the selected resource.",
	421: "The client needs a new connection for this\nrequest as the requested host name does not match\nthe Server Name Indication (SNI) in use for this\nconnection.",
	429: "The user has sent too many requests\nin a given amount of time.",
	431: "The server refused this request because\nthe request header fields are too large.",
	501: "METHOD not supported for current URL.<br />\n",
	502: "The proxy server received an invalid\r\nresponse from an upstream server.<br />\r\n",
	503: "The server is temporarily unable to service your\nrequest due to maintenance downtime or capacity\nproblems. Please try again later.",
	504: "The gateway did not receive a timely response\nfrom the upstream server or application.",
	507: "The method could not be performed on the resource\nbecause the server is unable to store the\nrepresentation needed to successfully complete the\nrequest.  There is insufficient free space left in\nyour storage allocation.",
}

// apacheOther is what it says about every other error.
const apacheOther = "The server encountered an internal error or\nmisconfiguration and was unable to complete\nyour request.</p>\n<p>Please contact the server administrator at \n webmaster@localhost to inform them of the time this error occurred,\n and the actions you performed just before this error.</p>\n<p>More information about this error may be available\nin the server error log."

func apacheError(serverHeader string, status int, f Facts) Page {
	text, ok := apacheTexts[status]
	if !ok {
		text = apacheOther
	}
	method, host, port := f.Method, f.Host, f.Port
	if method == "" {
		method = "GET"
	}
	if host == "" {
		host = "localhost"
	}
	if port == 0 {
		port = 80
	}
	text = strings.NewReplacer("METHOD", escape(method), "LOCATION", escape(f.Location)).Replace(text)
	reason := Reason("Apache", status)
	return Page{
		ContentType: "text/html; charset=iso-8859-1",
		Body: []byte(`<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://www.w3.org/TR/html4/strict.dtd">` + "\n<html><head>\n" +
			fmt.Sprintf("<title>%d %s</title>\n</head><body>\n<h1>%s</h1>\n<p>%s</p>\n<hr>\n", status, reason, reason, text) +
			"<address>" + escape(serverHeader) + " Server at " + escape(host) + " Port " + strconv.Itoa(port) + "</address>\n</body></html>\n"),
	}
}
