// Package sdk holds tests alone: the client libraries that OpenAI and Anthropic publish
// call their APIs through simulator and gateway, and find them as they know them.
package sdk
