// Package netpin decides which addresses a trajectory's networks and services
// get, and attaches the shared simulator to those networks.
//
// The decision ([Compute]) is pure: it sees what is wanted and what is taken,
// and answers with a [Plan]. Everything that asks or changes the engine goes
// through the few methods of [Engine].
package netpin
