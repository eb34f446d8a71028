//! The resource types of Roundhouse, their CRDs and pure validation.
