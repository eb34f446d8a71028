//! JSON merge, strategic merge and three-way diff as Kubernetes computes them; pure.
