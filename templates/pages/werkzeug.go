package pages

import (
	"fmt"
	"net/http"
)

// werkzeugTexts are the descriptions of werkzeug.exceptions.
var werkzeugTexts = map[int]string{
	400: "The browser (or proxy) sent a request that this server could not understand.",
	401: "The server could not verify that you are authorized to access the URL requested. You either supplied the wrong credentials (e.g. a bad password), or your browser doesn't understand how to supply the credentials required.",
	403: "You don't have the permission to access the requested resource. It is either read-protected or not readable by the server.",
	404: "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.",
	405: "The method is not allowed for the requested URL.",
	408: "The server closed the network connection because the browser didn't finish the request within the specified time.",
	409: "A conflict happened while processing the request. The resource might have been modified while the request was being processed.",
	411: "A request with this method requires a valid <code>Content-Length</code> header.",
	412: "The precondition on the request for the URL failed positive evaluation.",
	413: "The data value transmitted exceeds the capacity limit.",
	414: "The length of the requested URL exceeds the capacity limit for this server. The request cannot be processed.",
	415: "The server does not support the media type transmitted in the request.",
	416: "The server cannot provide the requested range.",
	429: "This user has exceeded an allotted request count. Try again later.",
	431: "One or more header fields exceeds the maximum size.",
	500: "The server encountered an internal error and was unable to complete your request. Either the server is overloaded or there is an error in the application.",
	501: "The server does not support the action requested by the browser.",
	502: "The proxy server received an invalid response from an upstream server.",
	503: "The server is temporarily unable to service your request due to maintenance downtime or capacity problems. Please try again later.",
	504: "The connection to an upstream server timed out.",
	505: "The server does not support the HTTP protocol version used in the request.",
}

// werkzeugNames are where its titles differ from the usual words.
var werkzeugNames = map[int]string{
	413: "Request Entity Too Large",
	414: "Request URI Too Large",
	416: "Requested Range Not Satisfiable",
}

func werkzeugError(status int) Page {
	name, ok := werkzeugNames[status]
	if !ok {
		name = http.StatusText(status)
	}
	text := ""
	if t, ok := werkzeugTexts[status]; ok {
		text = "<p>" + escape(t) + "</p>\n"
	}
	return Page{
		ContentType: "text/html; charset=utf-8",
		Body:        fmt.Appendf(nil, "<!doctype html>\n<html lang=en>\n<title>%d %s</title>\n<h1>%s</h1>\n%s", status, name, name, text),
	}
}
